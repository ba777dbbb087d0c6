"""Measurements of scheduling in one process: how fast pods get devices (`scheduling`), and beside a noisy node (`flood`)."""
