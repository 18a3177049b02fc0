package v1

import "fmt"

// Class says who refuses a field, and so what follows from it.
type Class string

const (
	// Rejected: the API server refuses the object (schema and CEL rules of the CustomResourceDefinition).
	Rejected Class = "Rejected"
	// UnknownField: the API server drops the field, and refuses the object when the client asks for strict validation,
	// as kubectl does.
	UnknownField Class = "UnknownField"
	// Invalid: the API server stores the object, and the controller marks it as not usable.
	Invalid Class = "Invalid"
)

// FieldError is one thing that is wrong with an object.
type FieldError struct {
	Class Class
	// Path leads to the field, for example spec.disruption.budgets[0].schedule; empty for the object as a whole.
	Path string
	// Message says what is wrong and what was expected.
	Message string
	// Reason is the reason of the condition ValidationSucceeded for Invalid, else empty.
	Reason string
}

// Error makes a FieldError an error.
func (e FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Message)
}
