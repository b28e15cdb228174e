"""The local cloud: the same handlers over a real Redis and a real MongoDB, no Docker, no account.

=================  ===========================================================================
``guard``          runs a server and ends it when its owner is gone
``parts``          finds server programs, free ports, waits until a part answers
``redis_server``   a Redis of one's own
``mongo_server``   a MongoDB replica set of one's own
``health``         asks each part of a running cloud whether it answers
``aws_server``     moto's server: SSM, Secrets Manager, SNS, CloudWatch
=================  ===========================================================================
"""
