"""What `import shoal` hands out."""
