"""What steps of workflows do with Kafka: `gathering` for the plan, one module for each kind of thing that steps are about, `taker` sends each action to its own."""
