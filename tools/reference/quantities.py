"""The quantities recorded for a model, each a few lines of plain PyTorch.

Convention of all losses: the mean, over the positions whose target is not IGNORED, of the cross entropy between the
logits at a position and the token that follows it. `targets` are already shifted: targets[:, t] belongs to
logits[:, t].
"""

import math

import torch
import torch.nn.functional as F
from torch.func import functional_call, jvp

IGNORED = -100

STEPS = 20
WARMUP = 4
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
TOKEN_ROWS = "trainable_tokens_delta"  # peft's name for rows of single tokens
LR_PEAK = 1e-3
LR_FLOOR = 0.1  # of the peak
CLIP = 3.0  # inside the range of the norms met here, so that some steps are clipped and others are not


def logits_of(model, ids, params=None):
    """Next-token scores: ids [B, T] -> [B, T, V]."""
    if params is None:
        return model(input_ids=ids, use_cache=False).logits
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}  # longrope writes to its frequencies
    held = dict(model.named_parameters())
    logits = functional_call(model, {**params, **buffers}, kwargs={"input_ids": ids, "use_cache": False}).logits
    for name, param in held.items():  # functional_call does not put back what two paths of modules lead to
        path, _, last = name.rpartition(".")
        model.get_submodule(path)._parameters[last] = param
    return logits


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def norm_of(tensors) -> torch.Tensor:
    return torch.sqrt(sum(tensor.double().square().sum() for tensor in tensors))


def trained_parameters(model) -> dict[str, torch.nn.Parameter]:
    """Those that take part in training: all of a model, or its adapter's where the base is frozen."""
    return {name: param for name, param in model.named_parameters() if param.requires_grad}


def gradients(model, loss) -> dict[str, torch.Tensor]:
    params = trained_parameters(model)
    return dict(zip(params, torch.autograd.grad(loss, params.values())))


def tangents(model, ids, targets, direction):
    """Derivatives along `direction` (parameter name -> tensor), by forward-mode differentiation.

    What it does not name stays as it is. Returns the derivative of the logits [B, T, V] and that of the loss.
    """

    def both(params):
        logits = logits_of(model, ids, params)
        return logits, loss_of(logits, targets)

    params = {name: param.detach() for name, param in model.named_parameters() if name in direction}
    _, (logits_tangent, loss_tangent) = jvp(both, (params,), (direction,))
    return logits_tangent, loss_tangent


def packed_logits(model, ids, borders):
    """Documents ids[0, borders[i]:borders[i+1]] run on their own, positions from 0; laid side by side, [1, T, V]."""
    pieces = [logits_of(model, ids[:, begin:end]) for begin, end in zip(borders, borders[1:])]
    return torch.cat(pieces, dim=1)


def learning_rate(step: int) -> float:
    """Linear warm-up to the peak, then a half cosine down to the floor; `step` counts from 0."""
    if step < WARMUP:
        return LR_PEAK * (step + 1) / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return LR_PEAK * (LR_FLOOR + (1 - LR_FLOOR) * 0.5 * (1 + math.cos(math.pi * progress)))


def train(model, batches, steps=STEPS):
    """The first `steps` steps of AdamW in place; step i uses batches[i % len(batches)], each a pair (ids, targets).

    Returns the losses before each update and the gradient norms before clipping. Weight decay acts on parameters of
    two or more dimensions, embeddings included, but not on rows of single tokens that train next to a table.
    """
    params = trained_parameters(model).values()
    decays = {name: param.dim() >= 2 and TOKEN_ROWS not in name for name, param in trained_parameters(model).items()}
    matrices = [param for param, does in zip(params, decays.values()) if does]
    others = [param for param, does in zip(params, decays.values()) if not does]
    groups = [{"params": group, **of} for group, of in ((matrices, {}), (others, {"weight_decay": 0.0})) if group]
    optimizer = torch.optim.AdamW(groups, lr=LR_PEAK, **ADAMW)
    losses, norms = [], []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        ids, targets = batches[step % len(batches)]
        loss = loss_of(logits_of(model, ids), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(params, CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms
