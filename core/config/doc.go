// Package config reads the configuration of the scaler and the Lambda. What comes in
// are the bytes of a file, environment variables and flags as maps; what goes out is
// a complete Config, or every error at once with file, line, field and what was
// expected. Precedence: flag, then environment, then file, then default. Karpenter's
// names of flags and variables are accepted where they have a meaning here.
//
// Pure: reading files, the environment and changes while running is core/config/live.
package config

//go:generate go test -run TestReference . -update
