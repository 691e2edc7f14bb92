"""The API for programs, /api/v1; who may use it is decided in `dashboard.http.gate`."""
