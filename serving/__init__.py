"""One model as a service of its own: predictions over HTTP in a light process, without the dashboard."""
