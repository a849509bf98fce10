"""The product in containers: an engine, the images and a broker in a container, and the tests that run on them."""
