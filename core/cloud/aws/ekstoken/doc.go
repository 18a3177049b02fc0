// Package ekstoken makes bearer tokens for the API server of an EKS cluster: a
// presigned request to STS that names the cluster. Signing is local; nothing is sent
// and no permission is needed. A token is a credential: it is never logged.
package ekstoken
