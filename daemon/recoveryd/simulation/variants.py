"""Sensitivity runs: one thing of the model is changed, the controller is not."""

from dataclasses import replace

from recoveryd.simulation.model import ModelParams

_BASE = ModelParams()

VARIANTS: dict[str, ModelParams] = {
    "nominal": _BASE,
    **{f"delay {d} s": replace(_BASE, signal_delay_s=float(d)) for d in (2, 5, 20, 30, 60)},
    "period 15 s": replace(_BASE, signal_period_s=15),
    "period 30 s": replace(_BASE, signal_period_s=30),
    "noise x2": replace(_BASE, noise=2.0),
    "capacity x5": replace(_BASE, scale=5.0),
    "sharper knee": replace(_BASE, is_knee_squared=True),
    "baseline -26 %": replace(_BASE, baseline_error=0.74),
    "baseline +33 %": replace(_BASE, baseline_error=1.33),
    "slice 30 s": replace(_BASE, slice_s=30),
    "slice 60 s": replace(_BASE, slice_s=60),
    "slice not interruptible": replace(_BASE, is_slice_interruptible=False),
    "quota only": replace(_BASE, has_quota_actuator=True),
}
