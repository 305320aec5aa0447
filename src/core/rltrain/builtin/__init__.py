"""The plugins that come with the core: they import what any plugin may."""
