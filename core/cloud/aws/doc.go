// Package aws is the provider for EC2: what package cloud asks for, put together from the packages below it.
//
// In: calls of cloud.Provider, EC2NodeClasses as they were resolved (SetClass), and the clients of the SDK. Out: launch
// requests, instances, offerings with prices and their sources.
//
// It holds what it read of AWS and nothing of Kubernetes. It decides neither what to buy nor when, and remembers no shortages:
// that is the ledger's. Only instances and templates with the tags of its cluster are ended or deleted.
package aws
