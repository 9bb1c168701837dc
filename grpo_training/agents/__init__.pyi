from .analyst import ExperienceAnalyst as ExperienceAnalyst
from .critic import CriticAgent as CriticAgent
from .generator import GeneratorAgent as GeneratorAgent
