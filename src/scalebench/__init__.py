"""scalebench: which way of spreading GPT-2-class training over devices pays off, by how much, and how sure are we?"""

__version__ = "0.1.0"
