"""What `import entrometer as em` offers: experiments and their results."""
