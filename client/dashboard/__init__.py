"""The dashboard: a web page that shows agents as they learn, and the small server behind it.

The server holds the tokens, asks the agents, and remembers what they told; the browser talks to the server alone.
"""
