"""`tilebench.cuda`: what programs written for one kind of GPU name; here it runs on every target."""
