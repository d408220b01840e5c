"""The loss of a run as a picture, for notebooks: SVG as text, no other package."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from ._run import Run

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 260, 56, 28, 28
POINTS_MOST = 600  # more than a screen shows
SMOOTHING = 0.9


def _smoothed(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    mean, made = None, []
    for x, y in points:
        mean = y if mean is None else SMOOTHING * mean + (1 - SMOOTHING) * y
        made.append((x, mean))
    return made


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stride = max(1, math.ceil(len(points) / POINTS_MOST))
    return points[::stride] + (points[-1:] if points and (len(points) - 1) % stride else [])


def svg_of(run: "Run") -> str:
    """Loss of the steps, raw and smoothed, and of evaluations."""
    train = [(float(s.step), s.loss) for s in run.steps if math.isfinite(s.loss)]
    evaluated = [(float(e["step"]), float(e["eval_loss"])) for e in run.evaluations if math.isfinite(float(e["eval_loss"]))]
    every = train + evaluated
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" font-family="sans-serif" font-size="12">'
    if not every:
        return head + f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle" fill="#888">no step yet</text></svg>'
    last = max(x for x, _ in every)
    low, high = min(y for _, y in every), max(y for _, y in every)
    span = (high - low) or 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - 12) * (x / last if last else 0)
        return f"{across:.1f},{TOP + (HEIGHT - TOP - BOTTOM) * (1 - (y - low) / span):.1f}"

    def line(points: Iterable[tuple[float, float]], style: str) -> str:
        return f'<polyline fill="none" points="{" ".join(place(x, y) for x, y in points)}" {style}/>'

    parts = [head]
    for share in (0.0, 0.5, 1.0):
        y = low + share * span
        height = place(0, y).split(",")[1]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{height}" y2="{height}" stroke="#888" stroke-opacity="0.25"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{float(height) + 4:.1f}" text-anchor="end" fill="#888">{y:.3g}</text>')
    parts.append(line(_thinned(train), 'stroke="#3b82c4" stroke-opacity="0.3"'))
    parts.append(line(_thinned(_smoothed(train)), 'stroke="#3b82c4" stroke-width="2"'))
    if evaluated:
        parts.append(line(evaluated, 'stroke="#d97706" stroke-width="2"'))
    told = f"step {int(last)}, loss {train[-1][1]:.4f}" if train else f"step {int(last)}"
    told += f", evaluation {evaluated[-1][1]:.4f}" if evaluated else ""
    parts.append(f'<text x="{LEFT}" y="16" fill="#888">{told}</text>')
    parts.append(f'<text x="{WIDTH - 12}" y="{HEIGHT - 8}" text-anchor="end" fill="#888">step {int(last)}</text>')
    return "".join(parts) + "</svg>"


def watch(run: "Run", every: int = 1) -> dict:
    """Follows a run to its end: in a notebook by a picture that is drawn again each `every` steps, elsewhere by lines."""
    try:
        from IPython import get_ipython
        from IPython.display import display

        handle = display(run, display_id=True) if get_ipython() is not None else None
    except ImportError:
        handle = None
    for step in run:
        if step.step % every:
            continue
        if handle is not None:
            handle.update(run)
        else:
            print(f"step {step.step}  loss {step.loss:.4f}", flush=True)
    if handle is not None:
        handle.update(run)
    return run.result()
