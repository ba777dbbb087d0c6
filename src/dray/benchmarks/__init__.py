"""Benchmarks of scheduling in one process: throughput (`scheduling`), next to a noisy node (`flood`), and requests
(`requests`).
"""
