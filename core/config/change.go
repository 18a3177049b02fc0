package config

import (
	"reflect"
	"strings"
)

// fixed are the parts that a running scaler cannot change: it holds connections,
// files and leases that were opened with them.
var fixed = []string{
	"apiVersion", "kind", "cluster", "clusterEndpoint", "clusterCABundle", "region", "account", "replicas",
	"cloud", "ledger", "interruption", "leaderElection", "kube", "log.outputPaths", "log.errorOutputPaths",
	"metrics", "health", "admin", "memoryLimit", "schedulerConfig", "strategyFolder", "strategyRecords",
}

// Changed lists the fields in which two configurations differ, in the order of the
// structs; a strategy is one field.
func Changed(a, b *Config) []string {
	var out []string
	changed(reflect.ValueOf(*a), reflect.ValueOf(*b), "", &out)
	return out
}

func changed(a, b reflect.Value, path string, out *[]string) {
	switch {
	case a.Kind() == reflect.Struct && path != "" && a.Type() == strategyType:
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			*out = append(*out, path)
		}
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			changed(a.Field(i), b.Field(i), join(path, jsonName(a.Type().Field(i))), out)
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		*out = append(*out, path)
	}
}

// CheckChange is nil where a running scaler may go from old to next, else an Errors
// that names each field for which it must be started again.
func CheckChange(old, next *Config, source string) error {
	var errs Errors
	for _, path := range Changed(old, next) {
		for _, f := range fixed {
			if path == f || strings.HasPrefix(path, f+".") {
				errs.add(source, path, "cannot be changed while running: start the scaler again")
			}
		}
	}
	return errs.err()
}
