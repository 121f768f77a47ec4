"""SQS: the messages that carry a saga from step to step."""
