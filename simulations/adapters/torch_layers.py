"""Layers and parameters of a model that no engine can train, refused by their names (the extra ``torch``)."""

from __future__ import annotations

from typing import Any

from corrnoise.simulations.adapters.torch_items import ModelError
from corrnoise.support.extras import extra_module


def check_layers(model: Any) -> None:
    """Refuse layers with statistics of a batch or sparse gradients, and parameters that are sharded or missing."""
    torch = extra_module("torch", "torch")
    norms = extra_module("torch.nn.modules.batchnorm", "torch")
    for name, layer in model.named_modules():
        kind, place = type(layer).__name__, name or "model"
        if isinstance(layer, torch.nn.parallel.DistributedDataParallel):
            raise ModelError("model must be given without DistributedDataParallel, which adds gradients without noise")
        if isinstance(layer, norms._NormBase):
            batch = not isinstance(layer, extra_module("torch.nn.modules.instancenorm", "torch")._InstanceNorm)
            if layer.training and (batch or layer.track_running_stats):
                raise ModelError(
                    f"layer {place!r} must treat each example by itself, got {kind} in training, which uses or keeps "
                    "statistics of the batch: use GroupNorm or LayerNorm, or freeze it by eval()"
                )
            if batch and not layer.track_running_stats:
                raise ModelError(
                    f"layer {place!r} must treat each example by itself, got {kind} with track_running_stats=False, "
                    "which uses statistics of the batch also in eval(): use GroupNorm or LayerNorm"
                )
        if getattr(layer, "sparse", False):
            raise ModelError(f"layer {place!r} must have sparse=False, since noisy gradients are dense")
        if getattr(layer, "max_norm", None) is not None:
            raise ModelError(
                f"layer {place!r} must have max_norm=None, got {layer.max_norm}: it rewrites its weight by the "
                "examples, without noise"
            )
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise ModelError(f"{name} must have a shape: call the model once with public or made-up inputs")
        if parameter.is_meta:
            raise ModelError(f"{name} must have values, got a tensor on the device 'meta': load or initialise it first")
        if parameter.requires_grad and hasattr(parameter, "placements"):
            raise ModelError(
                f"{name} must be whole in each process, got a DTensor: FSDP adds gradients of examples before they can "
                "be clipped; train low-rank adapters with a whole model in each process"
            )
