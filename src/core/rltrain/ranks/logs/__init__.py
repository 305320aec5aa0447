"""What ranks print: their logs, the console, and streams that outlive their readers."""
