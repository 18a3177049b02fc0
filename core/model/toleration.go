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
		want, ok1 := integer(t.Value)
		have, ok2 := integer(taint.Value)
		return ok1 && ok2 && (t.Operator == "Lt" && have < want || t.Operator == "Gt" && have > want)
	}
	return false
}

// integer reads a decimal number as the API writes it: no plus sign, no leading zeros.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}
