"""The plugins that come with the core. They import only what any plugin may import."""
