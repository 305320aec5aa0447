"""Every choice resolved, and every refusal made, before a rank starts."""
