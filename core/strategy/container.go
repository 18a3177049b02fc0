package strategy

func (s Spec) checkSocket() error { return nil }
