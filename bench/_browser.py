"""What the page costs a real browser: scripts that measure it there, for the benchmark and for the tests.

Left out: signing in and opening the page, which each does in its own way.
"""

from __future__ import annotations

from typing import NamedTuple

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
LIVE = ".connection[data-state=live]"  # is there when the first picture is complete

WATCH = """
window.frames_ = []; window.tasks_ = [];
new PerformanceObserver((list) => { for (const one of list.getEntries()) tasks_.push(one.duration); })
  .observe({ type: "longtask", buffered: true });
const next = window.requestAnimationFrame.bind(window);
let frame = 0, spent = 0;
window.requestAnimationFrame = (draw) => next((at) => {
  const began = performance.now();
  draw(at);
  if (at !== frame) { if (frame) frames_.push(spent); frame = at; spent = 0; }
  spent += performance.now() - began;
});
"""
LONG_TASKS = "tasks_"
"""The tasks over 50 ms so far, in milliseconds."""
SCROLL = """async () => {
  frames_.length = tasks_.length = 0;
  const map = document.querySelector(".map");
  for (let i = 0; i < 90; i++) { map.scrollTop += 61; await new Promise((done) => setTimeout(done, 16)); }
  return [frames_, tasks_];
}"""


class Scrolling(NamedTuple):
    """Script time of a frame while the map scrolls, at the median and at the 95th of 100, and tasks over 50 ms."""

    median: float
    most: float
    tasks: list[float]

    @classmethod
    def of(cls, frames: list[float], tasks: list[float]) -> Scrolling:
        """What `SCROLL` found."""
        assert len(frames) > 30, "the map did not scroll"
        ordered = sorted(frames)
        return cls(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)], tasks)

    def __str__(self) -> str:
        told = f"median {self.median:.1f} ms, 95 of 100 {self.most:.1f} ms"
        return f"script time of a frame while scrolling: {told}, tasks over 50 ms {self.tasks}"
