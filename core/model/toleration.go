package model

import "strconv"

// Matches says whether the toleration covers the taint, by the rules of the core
// API: an empty key with Exists matches every taint, an empty effect every effect,
// and Lt and Gt compare the taint's value, as an integer, with the toleration's.
func (t Toleration) Matches(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key == "" {
		return t.Operator == "Exists"
	}
	if t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Value == taint.Value
	case "Exists":
		return true
	case "Lt", "Gt":
		want, err1 := strconv.ParseInt(t.Value, 10, 64)
		have, err2 := strconv.ParseInt(taint.Value, 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		return t.Operator == "Lt" && have < want || t.Operator == "Gt" && have > want
	}
	return false
}
