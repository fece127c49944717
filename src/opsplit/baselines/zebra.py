"""Zebra: frames become tokens of a VQ-VAE, and a causal language model continues them.

The quantiser is that of `vector-quantize-pytorch`, the language model (Llama's: RMS norms, rotary
positions, gated SiLU) that of `x-transformers`, both of the extra `baselines`. Half of the budget
trains the tokenizer, the other half the language model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opsplit.baselines.mpp import TRANSPOSED
from opsplit.baselines.protocol import OBSERVED, Baseline, Fitting, Network, relative
from opsplit.baselines.windows import Windows
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.encoder import CONVOLUTION
from opsplit.pretrain.config import Budget, Positive
from opsplit.pretrain.sources import Facts
from opsplit.settings import Between

GROUPS = 8
"""Of every group norm."""
COMMITMENT = 0.25
SAMPLED = 4
"""Frames of a window that the tokenizer learns from in one step."""
MOST_LIKELY = 50
"""Tokens that are sampled from, as in the authors' library."""

Width = Annotated[int, Between(8, 4096)]


@dataclass(frozen=True)
class Zebra(Baseline):
    """Settings of Zebra."""

    kind = "zebra"

    width: Width = 64
    """Channels of the tokenizer at full resolution; a multiple of 8, doubled at every level."""
    widest: Width = 256
    """Most channels."""
    levels: Annotated[int, Between(1, 10)] = 4
    """How often a frame is halved along every axis."""
    code: Annotated[int, Between(1, 4096)] = 64
    """Numbers in an entry of the codebook."""
    entries: Annotated[int, Between(2, 65536)] = 256
    """Entries of the codebook."""
    codebooks: Annotated[int, Between(1, 16)] = 2
    """Tokens per place, each for what the ones before left over."""
    hidden: Width = 256
    """Width of the language model."""
    layers: Annotated[int, Between(1, 100)] = 8
    """Layers of the language model."""
    heads: Annotated[int, Between(1, 256)] = 8
    """Attention heads."""
    history: Annotated[int, Between(OBSERVED + 1, 1000)] = 50
    """Frames that the language model sees at a time."""
    temperature: Positive = 0.1
    """Of sampling the next token."""

    @property
    def window(self) -> int:
        return self.history

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        line = ndim == 1
        if name == "paper":
            # Both stages together; the paper gives 300k to the first and 100k to the second.
            training = Fitting(Budget(steps=400_000), 64 if line else 32, 1e-4, clip=1.0)
            if line:
                return cls(), training
            return cls(
                widest=512, levels=3, code=16, entries=1024, codebooks=1, history=32
            ), training
        if name == "tiny":
            made = cls(16, 32, 2, 8, 64, 1, hidden=32, layers=2, heads=1, history=18)
            return made, Fitting(
                Budget(steps=200, validate_every=50), batch=4, learning_rate=3e-3, clip=1.0
            )
        budget = Budget(steps=100_000, minutes=60, validate_every=100)
        made = cls(16, 64, 4 if line else 3, 16, 512, 1, hidden=96, layers=3, heads=3,
                   history=24 if line else 20)  # fmt: skip
        return made, Fitting(budget, batch=8 if line else 2, learning_rate=2e-3, clip=1.0)

    def check(self) -> None:
        if self.width % GROUPS or self.widest % GROUPS or self.hidden % self.heads:
            raise OpsplitError(
                f"Zebra: width and widest must be multiples of {GROUPS} and hidden one of heads, "
                f"got {self.width}, {self.widest}, {self.hidden} and {self.heads}."
            )

    def build(self, facts: Facts) -> TokenModel:
        return TokenModel(self, facts)


class TokenModel(Network):
    """A tokenizer of frames and a language model of their tokens."""

    stages = ("reconstruction", "tokens")

    def __init__(self, settings: Zebra, facts: Facts) -> None:
        super().__init__()
        try:
            from vector_quantize_pytorch import ResidualVQ
            from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper
        except ImportError:
            raise OpsplitError(
                "Zebra needs packages that are not installed: pip install 'opsplit[baselines]'"
            ) from None
        shape, factor = facts.grid.shape, 2**settings.levels
        if any(n % factor for n in shape):
            raise OpsplitError(
                f"Zebra halves every axis {settings.levels} times, which {shape} does not allow; "
                "choose fewer --model.levels."
            )
        self.settings, self.places = settings, tuple(n // factor for n in shape)
        self.begin = settings.entries
        self.encoder, self.decoder = coder(settings, len(facts.channels), facts.grid.ndim)
        self.quantiser: Any = ResidualVQ(
            dim=settings.code, num_quantizers=settings.codebooks, codebook_size=settings.entries,
            shared_codebook=True, kmeans_init=True, threshold_ema_dead_code=2,
            stochastic_sample_codes=True, sample_codebook_temp=0.1,
            commitment_weight=COMMITMENT, rotation_trick=False,
        )  # fmt: skip
        for part in self.quantiser.modules():
            if hasattr(part, "initted"):
                # A number, because files of weights hold numbers only.
                part.initted = part.initted.float()
        count = settings.codebooks * torch.Size(self.places).numel()
        self.tokens = count
        self.language: Any = AutoregressiveWrapper(
            TransformerWrapper(
                num_tokens=settings.entries + 1,
                max_seq_len=settings.history * count + 1,
                use_abs_pos_emb=False,
                attn_layers=Decoder(
                    dim=settings.hidden, depth=settings.layers, heads=settings.heads,
                    attn_dim_head=settings.hidden // settings.heads, rotary_pos_emb=True,
                    use_rmsnorm=True, ff_glu=True, ff_swish=True, ff_no_bias=True, attn_flash=True,
                ),
            )
        )  # fmt: skip

    def quantise(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Codes `(n, code, *places)` of frames, their tokens and the commitment loss."""
        places = self.encoder(frames).flatten(2).transpose(1, 2)
        codes, tokens, commitment = self.quantiser(places)
        return self._placed(codes), tokens, commitment.sum()

    def tokens_of(self, windows: Tensor) -> Tensor:
        """Tokens `(n, time * tokens)` of windows, place by place, codebooks fastest."""
        _, tokens, _ = self.quantise(windows.flatten(0, 1))
        return tokens.reshape(len(windows), -1)

    def frames_of(self, tokens: Tensor) -> Tensor:
        """Frames `(n, time, channel, *space)` of what `tokens_of` gives."""
        each = tokens.reshape(-1, self.tokens // self.settings.codebooks, self.settings.codebooks)
        codes = self.quantiser.get_output_from_indices(each)
        return self.decoder(self._placed(codes)).unflatten(0, (len(tokens), -1))

    def _placed(self, codes: Tensor) -> Tensor:
        return codes.transpose(1, 2).unflatten(2, self.places)

    def loss(self, windows: Windows, stage: str) -> Tensor:
        if stage == "reconstruction":
            chosen = torch.randperm(windows.frames.shape[1])[:SAMPLED]
            return self._reconstruction(windows.frames[:, chosen])
        # The tokenizer is finished: its codebook must not follow the data any more.
        for part in (self.encoder, self.quantiser):
            part.eval()
        with torch.no_grad():
            tokens = self.tokens_of(windows.frames)
        sequence = self._begun(tokens)
        logits = self.language.net(sequence[:, :-1])
        return F.cross_entropy(logits.transpose(1, 2), sequence[:, 1:], reduction="none").mean(1)

    def _reconstruction(self, frames: Tensor) -> Tensor:
        flat = frames.flatten(0, 1)
        codes, _, commitment = self.quantise(flat)
        error = relative(self.decoder(codes), flat).unflatten(0, frames.shape[:2]).mean(1)
        return error + (commitment if self.training else 0.0)

    def errors(self, windows: Windows) -> dict[str, Tensor]:
        """The floor of every forecast, and the cross-entropy of tokens."""
        return {
            "reconstruction": self._reconstruction(windows.frames[:, :SAMPLED]),
            "tokens": self.loss(windows, "tokens"),
        }

    def _begun(self, tokens: Tensor) -> Tensor:
        return F.pad(tokens, (1, 0), value=self.begin)

    def forecast(self, observed: Tensor, horizon: int) -> Tensor:
        known = self.tokens_of(observed)
        while known.shape[1] < (observed.shape[1] + horizon) * self.tokens:
            # The newest frames stay; the language model sees only so many at a time.
            prompt = self._begun(known[:, -OBSERVED * self.tokens :])
            room = (self.settings.history - OBSERVED) * self.tokens
            left = (observed.shape[1] + horizon) * self.tokens - known.shape[1]
            made = self.language.generate(
                prompt, min(room, left), temperature=self.settings.temperature, cache_kv=True,
                filter_logits_fn=self._sampled,
            )  # fmt: skip
            known = torch.cat([known, made], 1)
        return self.frames_of(known[:, observed.shape[1] * self.tokens :])

    def _sampled(self, logits: Tensor) -> Tensor:
        """The most likely tokens only, and never the one that begins a sequence."""
        logits = logits.index_fill(-1, torch.tensor([self.begin], device=logits.device), -torch.inf)
        least = logits.topk(min(MOST_LIKELY, self.begin), -1).values[..., -1:]
        return logits.masked_fill(logits < least, -torch.inf)


def coder(settings: Zebra, channels: int, ndim: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder of the tokenizer, each the other way round."""
    conv, transposed = CONVOLUTION[ndim], TRANSPOSED[ndim]
    widths = [min(settings.width * 2**i, settings.widest) for i in range(settings.levels + 1)]
    down: list[nn.Module] = [_periodic(conv, channels, widths[0], 5), Residual(widths[0], conv)]
    up: list[nn.Module] = [_periodic(conv, settings.code, widths[-1], 3)]
    for fine, coarse in pairwise(widths):
        down += [_periodic(conv, fine, coarse, 3, stride=2), Residual(coarse, conv)]
    for fine, coarse in reversed(list(pairwise(widths))):
        # A pixel shuffle: one matrix per corner of a cell.
        up += [Residual(coarse, conv), transposed(coarse, fine, 2, 2)]
    down += [nn.SiLU(), conv(widths[-1], settings.code, 1)]
    up += [Residual(widths[0], conv), nn.SiLU(), _periodic(conv, widths[0], channels, 5)]
    return nn.Sequential(*down), nn.Sequential(*up)


def _periodic(conv: Any, inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    made: nn.Module = conv(
        inputs, outputs, kernel, stride, padding=kernel // 2, padding_mode="circular"
    )
    return made


class Residual(nn.Module):
    """Two normalised convolutions, added to their input."""

    def __init__(self, width: int, conv: Any) -> None:
        super().__init__()
        halves = [
            nn.Sequential(nn.GroupNorm(GROUPS, width), nn.SiLU(), _periodic(conv, width, width, 3))
            for _ in range(2)
        ]
        self.branch = nn.Sequential(*halves)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)
