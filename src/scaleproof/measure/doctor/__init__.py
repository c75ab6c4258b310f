"""Is this machine fit to measure, and does scaleproof measure right on it?"""

__all__ = ["doctor", "doctor_cpu", "doctor_gpu", "doctor_steps", "speed"]
