"""Where observations come from: files, sensor logs, and a simulated building."""
