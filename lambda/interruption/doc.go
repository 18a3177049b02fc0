// Command interruption is the AWS Lambda (provided.al2023, built as bootstrap) that
// gets workloads off machines which AWS is about to take, with or without a living
// scaler. It is invoked with EventBridge events, alone or in SQS messages, and by a
// schedule. What it does is lambda/interruption/respond; this is wiring.
//
// It reads the configuration of the scaler, from variables: CLUSTER_NAME; then
// CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE, or KUBECONFIG; WEIR_ACCOUNT, AWS_REGION,
// and WEIR_LEDGER; WEIR_RELAY and
// WEIR_DEAD_LETTER_QUEUE. Its log and its metrics (embedded metric format)
// are lines of its output. The API server sees a token that is signed with the credentials of
// the function's role.
package main
