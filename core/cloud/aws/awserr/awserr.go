package awserr

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/weir-project/weir/core/cloud"
)

var kinds = map[cloud.ErrorKind][]string{
	// Only these two mean that AWS has no machine to give; see design section 8, "Capacity memory".
	cloud.Shortage: {"InsufficientInstanceCapacity", "UnfulfillableCapacity", "InsufficientCapacity", "InsufficientCapacityOnOutpost", "ReservationCapacityExceeded"},
	cloud.Throttled: {"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "ProvisionedThroughputExceededException", "SlowDown", "BandwidthLimitExceeded", "PriorRequestNotComplete", "EC2ThrottledException"},
	cloud.Quota: {"VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "MaxFleetCountExceeded", "InstanceLimitExceeded", "SpotMaxPriceTooLow", "FleetQuotaExceeded",
		"LimitExceeded", "LimitExceededException", "VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded", "NetworkInterfaceLimitExceeded",
		"ResourceLimitExceeded", "ServiceQuotaExceededException", "PendingVerification", "FreeTierRestrictionError"},
	cloud.Auth: {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "Blocked", "OptInRequired",
		"InvalidClientTokenId", "ExpiredToken", "ExpiredTokenException", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException", "NotAuthorized",
		"MissingAuthenticationToken", "IncompleteSignature", "UnauthorizedOperation.DryRun"},
	cloud.Token: {"IdempotentParameterMismatch", "IdempotentInstanceTerminated"},
	cloud.NotFound: {"InvalidInstanceID.NotFound", "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.NotFoundException",
		"InvalidCapacityReservationId.NotFound", "NoSuchEntity", "ParameterNotFound", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "ResourceNotFoundException",
		"InvalidAMIID.NotFound", "InvalidSubnetID.NotFound", "InvalidSubnet", "InvalidGroup.NotFound", "InvalidPlacementGroup.Unknown", "InvalidParameterValue.NotFound"},
	cloud.Template: {"Unsupported", "UnsupportedOperation", "InsufficientFreeAddressesInSubnet", "ValidationError", "MalformedQueryString", "EntityAlreadyExists",
		"InvalidBlockDeviceMapping", "InvalidSecurityGroupID.NotFound"},
}

var byCode = func() map[string]cloud.ErrorKind {
	out := map[string]cloud.ErrorKind{}
	for kind, codes := range kinds {
		for _, c := range codes {
			out[c] = kind
		}
	}
	return out
}()

// Kind sorts a code of AWS.
func Kind(code string) cloud.ErrorKind {
	if k, ok := byCode[code]; ok {
		return k
	}
	switch {
	case strings.HasSuffix(code, ".NotFound"), strings.HasSuffix(code, ".NotFoundException"):
		return cloud.NotFound
	case strings.HasPrefix(code, "Invalid"), strings.HasPrefix(code, "Missing"), strings.HasPrefix(code, "Malformed"), strings.HasPrefix(code, "Unknown"):
		return cloud.Template
	case strings.HasSuffix(code, "LimitExceeded"):
		return cloud.Quota
	}
	return cloud.Internal
}

// Of sorts the error of a call. Context errors stay what they are, so that a deadline is told from an answer; nil stays nil.
func Of(op string, err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code, message := api.ErrorCode(), api.ErrorMessage()
		kind := Kind(code)
		if api.ErrorFault() == smithy.FaultServer && kind == cloud.Template {
			kind = cloud.Internal
		}
		return &cloud.Error{Op: op, Kind: kind, Code: code, Message: message, Reason: Reason(code, message)}
	}
	for _, e := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return err
		}
	}
	var known *cloud.Error
	if errors.As(err, &known) {
		return err
	}
	return &cloud.Error{Op: op, Kind: cloud.Internal, Code: "RequestFailed", Message: plain(err)}
}

// plain is the error without the parts of it that carry signatures and keys.
func plain(err error) string {
	text := err.Error()
	if i := strings.Index(text, "X-Amz-"); i >= 0 {
		text = text[:i] + "..."
	}
	return text
}

// Is says whether the error has one of the codes.
func Is(err error, codes ...string) bool {
	var known *cloud.Error
	if errors.As(err, &known) {
		return slices.Contains(codes, known.Code)
	}
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// reasons are the names by which conditions tell errors of a launch: code, or words of the message.
var reasons = []struct{ code, message, reason string }{
	{code: "AuthFailure.ServiceLinkedRoleCreationNotPermitted", reason: "SpotSLRCreationFailed"},
	{message: "Not authorized for images", reason: "AMIAuthorizationFailure"},
	{code: "UnauthorizedOperation", reason: "Unauthorized"}, {code: "AccessDenied", reason: "Unauthorized"}, {code: "AuthFailure", reason: "Unauthorized"},
	{code: "AccessDeniedException", reason: "Unauthorized"},
	{message: "belong to different networks", reason: "SecurityGroupSubnetVPCMismatch"},
	{message: "iamInstanceProfile.name is invalid", reason: "InstanceProfileNameInvalid"}, {message: "Invalid IAM Instance Profile name", reason: "InstanceProfileNameInvalid"},
	{code: "InvalidLaunchTemplateName.NotFoundException", reason: "LaunchTemplateNotFound"},
	{message: "User data is limited to", reason: "UserDataSizeLimitExceeded"},
	{code: "InvalidAMIID.NotFound", reason: "AMINotFound"}, {code: "InvalidAMIID.Malformed", reason: "InvalidAMIID"}, {code: "InvalidAMIID.Unavailable", reason: "InvalidAMIID"},
	{code: "RequestLimitExceeded", reason: "RequestLimitExceeded"}, {code: "InternalError", reason: "InternalError"}, {code: "FreeTierRestrictionError", reason: "FreeTierIneligible"},
	{code: "MaxFleetCountExceeded", reason: "FleetQuotaExceeded"}, {code: "PendingVerification", reason: "AccountPendingVerification"},
	{code: "MaxSpotInstanceCountExceeded", reason: "SpotQuotaExceeded"}, {code: "VcpuLimitExceeded", reason: "VCPULimitExceeded"},
	{code: "InsufficientFreeAddressesInSubnet", reason: "InsufficientFreeAddressesInSubnet"},
}

// Reason is the name of a launch error in conditions and events; LaunchFailed for one without a name.
func Reason(code, message string) string {
	for _, r := range reasons {
		if r.code != "" && r.code == code || r.message != "" && strings.Contains(message, r.message) {
			return r.reason
		}
	}
	return "LaunchFailed"
}
