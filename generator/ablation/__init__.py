"""The ablation: what does each setting gain and cost? Studies, trainings, log, table, report."""
