// Package sdkconf makes the configuration that every AWS client of Weir starts from.
//
// What comes in is the region and how long one attempt of a call may take; what goes
// out is an aws.Config with the credentials, endpoints and certificates of the SDK's
// own settings (environment, profile, role of the pod or of the function), and with
// an HTTP client that hands request bodies over whole.
//
// It makes no client, decides on no retries of one service, and puts no secret into
// an error.
//
// A Pacer gives each operation a token bucket of its own, the SDK's adaptive one, and lets
// launches go before what only reads or tidies; a Call is what a metric is told of a call.
package sdkconf
