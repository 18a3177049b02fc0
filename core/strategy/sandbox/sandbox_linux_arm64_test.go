package sandbox

// olderMetadata is empty: this architecture has no older calls.
var olderMetadata map[string]uintptr
