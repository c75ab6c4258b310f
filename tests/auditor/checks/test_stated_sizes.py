"""Sizes that a text states with all that makes them: the wrong figure is named, the right one and its kin are not."""

import pytest
from markdown_tables import accusations, audited, rows

RESULTS = rows("GPUs | tokens/s", "1 | 911", "2 | 1,702")
PARTS = (
    "Per GPU usage:\n\n- Weights: 14 GB\n- Gradients: ~14 GB (bf16)\n- Adam: 2 x 14 GB = 28 GB\n- **Total**: {} GB\n"
)

# text with a place for the figure -> (wrong, right, words of the finding)
CASES = {
    PARTS: ("84", "56", "the 3 parts above it add up to 56"),
    "```\nWeights:  8.5 GB\nOverhead: 4-6 GB\n-----------\nTotal: {} GB\n```": ("23.5", "13.5", "add up to 13.5"),
    "- Embedding: 38.6M params\n- Blocks: 85.1M params\n\nTotal: {}M params": ("142", "124", "add up to 123.7"),
    "It is LLaMA 3 8B (\\~{} GB in FP32).": ("16", "32", "8e9 parameters in FP32 are 32 GB"),
    rows("Tensor | Size", "Latent ([1, 4, 14, 40, 72] fp16) | {} MB"): ("0.6", "0.32", "in fp16 are 0.3226 MB"),
    "`[B, H, T, T] = [8, 1, 16384, 16384]` = {} GB at fp32": ("2", "8.6", "in fp32 are 8590 MB"),
    "- GPU 0: **7,157 MB** (29.8% of VRAM)\n- GPU 1: **5,332 MB** ({}% of VRAM)": ("32.2", "22.2", "another VRAM"),
}


@pytest.mark.parametrize("text", CASES)
def test_a_wrong_size_is_named(tmp_path, text):
    wrong, _, words = CASES[text]
    findings = accusations(audited(tmp_path, f"{RESULTS}\n{text.format(wrong)}\n"))
    assert words in findings["claim-not-in-data"]


@pytest.mark.parametrize("text", CASES)
def test_a_right_size_is_not(tmp_path, text):
    _, right, _ = CASES[text]
    assert not accusations(audited(tmp_path, f"{RESULTS}\n{text.format(right)}\n"))


@pytest.mark.parametrize(
    "text",
    [
        PARTS.replace("- Adam", "- Buffers are not counted\n- Adam").format("84"),  # a part without a size
        PARTS.replace("- Adam", "- Of which used: 4 GB\n- Adam").format("60"),
        PARTS.replace("- Adam", "- Layers: 1 GB per layer\n- Adam").format("84"),
        PARTS.replace("- Adam", "  - of a layer: 1 GB\n- Adam").format("56"),  # a part of a part
        PARTS.replace("- Adam", "- Before: 9 GB -> 8 GB\n- Adam").format("84"),
        PARTS.replace("**Total**", "Total on 4 GPUs").format("224"),
        "- Total: 16.9 GB\n- Used: 15.4 GB\n- Free: 1.5 GB\n",
        "Llama 7B (14 GB in FP16), Qwen-8B (8.2 GB in INT8), Mixtral 8x7B (94 GB in BF16), 7B (13.5 GB in fp16)",
        "K and V caches [32, 32, 4096, 128] fp16 = 2.1 GB; 2 × [8, 1024] fp16 = 33 KB",
        "- GPU 0: 40 GB (50% of its memory)\n- GPU 1: 12 GB (50% of the rest)",
    ],
)
def test_what_may_be_right_is_not_named(tmp_path, text):
    assert not accusations(audited(tmp_path, f"{RESULTS}\n{text}\n"))
