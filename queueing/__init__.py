"""The durable queue of a team: jobs that run hosts on several machines take, each by a lease; not what a job does."""
