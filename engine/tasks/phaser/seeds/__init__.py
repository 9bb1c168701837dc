"""Prompts for games: features with texts in English and Chinese, what they need, and a program that has them.

A game is a few features (``features/*.yaml``). Prompts are made of their texts (``prompt_seeds.py``), and programs that
do what a prompt asks of their code (``programs.py``), so that prompts, checks and right answers agree.
"""
