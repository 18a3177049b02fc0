package awsv1

// Default fills what the API server would fill in on admission.
func (c *EC2NodeClass) Default() {
	if c.Spec.MetadataOptions == nil {
		c.Spec.MetadataOptions = &MetadataOptions{}
	}
	o := c.Spec.MetadataOptions
	defaultTo(&o.HTTPEndpoint, "enabled")
	defaultTo(&o.HTTPProtocolIPv6, "disabled")
	defaultTo(&o.HTTPPutResponseHopLimit, 1)
	defaultTo(&o.HTTPTokens, "required")
}

func defaultTo[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
