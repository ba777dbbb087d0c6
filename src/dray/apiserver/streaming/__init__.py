"""Two-way streams between clients and nodes: exec, attach and port-forward, over WebSockets and SPDY."""
