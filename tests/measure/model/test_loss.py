"""Three ways to compute the same loss, and attention without a mask: against transformers' own."""

import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from transformers import GPT2Config, GPT2LMHeadModel

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.measure.model import attention
from scaleproof.measure.model.loss import FusedCrossEntropy, Kind, LossHead
from scaleproof.measure.model.network import make_network
from scaleproof.measure.model.wrappers import LanguageModel

SHAPE = ModelShape(layers=2, width=32, heads=2, context=32)
VOCABULARY = 300
CHUNK = 23  # of 4 x 16 tokens: two whole chunks and a part of one


def model(loss: str = "plain", kind: str = "sdpa") -> LanguageModel:
    torch.manual_seed(5)
    made = LanguageModel(make_network(SHAPE, VOCABULARY), 16, attention=kind, loss=loss)
    made.network.lm_head.chunk = CHUNK
    return made


@pytest.fixture
def tokens() -> torch.Tensor:
    torch.manual_seed(6)
    return torch.randint(VOCABULARY, (4, 17))


def gradients(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in network.parameters()])


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("loss", ["plain", "chunked", "fused"])
def test_loss_and_gradients_are_those_of_transformers(tokens, loss, kind):
    own = model(loss, kind)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        activation_function="gelu_new",
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = GPT2LMHeadModel(config)
    theirs.load_state_dict(own.network.state_dict())
    value = own(tokens)
    value.backward()
    logits = theirs(input_ids=tokens[:, :-1]).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(gradients(own), gradients(theirs), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("loss", ["chunked", "fused"])
def test_low_precision_loses_nothing_to_plain(tokens, loss):
    losses, grads = [], []
    for kind in ("plain", loss):
        made = model(kind)
        with torch.autocast("cpu", torch.bfloat16):
            value = made(tokens)
        value.backward()
        losses.append(value.item())
        grads.append(gradients(made))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert (grads[1] - grads[0]).norm() < 0.01 * grads[0].norm()


def test_a_loss_scale_reaches_the_gradients(tokens):
    scaled, plain = model("fused"), model("fused")
    (scaled(tokens) * 4096).backward()
    plain(tokens).backward()
    torch.testing.assert_close(gradients(scaled), 4096 * gradients(plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", ["plain", "chunked", "fused"])
def test_scores_do_not_depend_on_the_loss(tokens, loss):
    made = model(loss)
    value = made(tokens).item()
    with torch.no_grad():
        scored = made.eval()(tokens)
    assert scored.shape == (4, 3)
    assert scored[:, 0].sum().item() / scored[:, 1].sum().item() == pytest.approx(value, rel=1e-5)


def test_fused_gradients_by_finite_differences():
    torch.manual_seed(7)
    hidden = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(11, (9,))
    FusedCrossEntropy.apply(hidden, weight, targets, 4).backward()
    plain = [t.detach().clone().requires_grad_() for t in (hidden, weight)]
    torch.nn.functional.cross_entropy(plain[0] @ plain[1].t(), targets).backward()
    torch.testing.assert_close(hidden.grad, plain[0].grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(weight.grad, plain[1].grad, rtol=1e-4, atol=1e-6)


def kept_bytes(loss: str, tokens: torch.Tensor) -> int:
    """Bytes that the forward pass keeps for the backward pass, parameters excluded."""
    made = model(loss)
    own = {p.untyped_storage().data_ptr() for p in made.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = made(tokens)
    assert value.requires_grad
    return sum(storages.values())


def test_what_is_kept_shrinks(tokens):
    """Plain keeps fp32 log-probabilities of all tokens; the others keep nothing of that size."""
    logits = 4 * 16 * VOCABULARY * 4
    plain, chunked, fused = (kept_bytes(loss, tokens) for loss in ("plain", "chunked", "fused"))
    assert plain - chunked >= 0.9 * logits
    assert plain - fused >= 0.9 * logits - VOCABULARY * 32 * 4, "fused keeps the gradient of the token table instead"


@pytest.mark.parametrize("function", [attention.sdpa, attention.eager])
def test_a_mask_is_refused(function):
    parts = [torch.zeros(1, 2, 4, 8)] * 3
    with pytest.raises(ValueError, match="made an attention mask"):
        function(torch.nn.Identity(), *parts, torch.ones(4, 4))


@pytest.mark.parametrize(("loss", "rows"), [("plain", 128), ("fused", 64)])
def test_a_loss_compiled_alone_has_logits_in_one_precision(loss: Kind, rows: int):
    """As written `plain` has two more buffers of them, in fp32: of the logits, and of their logarithms."""
    head = LossHead(torch.nn.Linear(32, VOCABULARY, bias=False), loss, chunk=64)
    mean_loss = torch.compile(head.mean_loss)

    def step(hidden: torch.Tensor, targets: torch.Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            value = mean_loss(hidden, targets)
        value.backward()

    inputs = torch.randn(128, 32, requires_grad=True), torch.randint(VOCABULARY, (128,))
    _, codes = run_and_get_code(step, *inputs)
    logits = [re.findall(rf"empty_strided_cpu\(\({rows}, {VOCABULARY}\), .*, torch\.(\w+)\)", code) for code in codes]
    assert logits == [["bfloat16"], []], "of the forward pass, and of the backward pass, which writes over them"


def test_a_compiled_fused_loss_keeps_no_logits_in_fp32():
    """By the code that torch's compiler writes: of a chunk's logits there is one buffer, the product's own."""
    torch.manual_seed(8)
    hidden, weight = (torch.randn(rows, 32, requires_grad=True) for rows in (128, VOCABULARY))
    targets = torch.randint(VOCABULARY, (128,))

    def loss(*inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return FusedCrossEntropy.apply(*inputs, 64)

    value, (code,) = run_and_get_code(torch.compile(loss, fullgraph=True), hidden, weight, targets)
    assert re.findall(rf"empty_strided_cpu\(\(64, {VOCABULARY}\), .*, torch\.(\w+)\)", code) == ["bfloat16"]
    of_compiled = torch.autograd.grad(value, (hidden, weight))
    of_eager = torch.autograd.grad(loss(hidden, weight, targets), (hidden, weight))
    for compiled, eager in zip(of_compiled, of_eager, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=0.02, atol=1e-4)
