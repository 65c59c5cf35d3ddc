"""Load for any server that speaks the OpenAI API: requests at random moments, and what their clients saw."""
