package aggregate

import (
	"context"
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema"
)

// outcome is what an attempt at ClickHouse came to, and decides what may be done next.
type outcome int

const (
	outcomeOK outcome = iota
	// outcomeRetry: the network, a time-out, a limit of the server. Nothing is known about what landed; the same will work later.
	outcomeRetry
	// outcomeConfig: a table, column or right is missing; the same will work once an operator has mended it.
	outcomeConfig
	// outcomeData: the server refuses these rows, or an error this code does not know. Others may pass.
	outcomeData
	// outcomeCorrupt: the segments on disk are not the decided ones.
	outcomeCorrupt
)

func (o outcome) String() string {
	return [...]string{"ok", "retry", "configuration", "data", "corrupt"}[o]
}

// Server error codes that say "later", by the names ClickHouse gives them in ErrorCodes.cpp.
var retryCodes = map[int32]bool{
	74:  true, // CANNOT_READ_FROM_FILE_DESCRIPTOR
	75:  true, // CANNOT_WRITE_TO_FILE_DESCRIPTOR
	76:  true, // CANNOT_OPEN_FILE
	95:  true, // CANNOT_READ_FROM_SOCKET
	96:  true, // CANNOT_WRITE_TO_SOCKET
	99:  true, // UNKNOWN_PACKET_FROM_CLIENT
	100: true, // UNEXPECTED_PACKET_FROM_CLIENT
	101: true, // UNEXPECTED_PACKET_FROM_SERVER
	102: true, // UNKNOWN_PACKET_FROM_SERVER
	159: true, // TIMEOUT_EXCEEDED
	173: true, // CANNOT_ALLOCATE_MEMORY
	198: true, // DNS_ERROR
	202: true, // TOO_MANY_SIMULTANEOUS_QUERIES
	203: true, // NO_FREE_CONNECTION
	209: true, // SOCKET_TIMEOUT
	210: true, // NETWORK_ERROR
	216: true, // QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING
	225: true, // NO_ZOOKEEPER
	236: true, // ABORTED
	241: true, // MEMORY_LIMIT_EXCEEDED
	242: true, // TABLE_IS_READ_ONLY
	243: true, // NOT_ENOUGH_SPACE
	244: true, // UNEXPECTED_ZOOKEEPER_ERROR
	252: true, // TOO_MANY_PARTS
	254: true, // NO_ACTIVE_REPLICAS
	279: true, // ALL_CONNECTION_TRIES_FAILED
	285: true, // TOO_FEW_LIVE_REPLICAS
	286: true, // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
	319: true, // UNKNOWN_STATUS_OF_INSERT
	364: true, // IP_ADDRESS_NOT_ALLOWED
	394: true, // QUERY_WAS_CANCELLED
	425: true, // SYSTEM_ERROR
	459: true, // CANNOT_SET_THREAD_PRIORITY
	473: true, // DEADLOCK_AVOIDED
	517: true, // CANNOT_ASSIGN_ALTER
	571: true, // DATABASE_NOT_EMPTY
	594: true, // ILLEGAL_STATISTICS_ACTION
	701: true, // CLUSTER_DOESNT_EXIST
	733: true, // TABLE_IS_BEING_RESTARTED
	734: true, // CANNOT_WRITE_AFTER_BUFFER_CANCELED
	735: true, // QUERY_WAS_CANCELLED_BY_CLIENT
	745: true, // SERVER_OVERLOADED
	999: true, // KEEPER_EXCEPTION
	// 1000 POCO_EXCEPTION and 1001 STD_EXCEPTION carry failures of files and sockets, a full disk at a rename among them.
	1000: true,
	1001: true,
	1002: true, // UNKNOWN_EXCEPTION
}

// Codes that an operator has to mend; every batch fails alike until then.
var configCodes = map[int32]bool{
	8:   true, // THERE_IS_NO_COLUMN
	10:  true, // NOT_FOUND_COLUMN_IN_BLOCK
	16:  true, // NO_SUCH_COLUMN_IN_TABLE
	20:  true, // NUMBER_OF_COLUMNS_DOESNT_MATCH
	36:  true, // BAD_ARGUMENTS
	43:  true, // ILLEGAL_TYPE_OF_ARGUMENT
	44:  true, // ILLEGAL_COLUMN
	46:  true, // UNKNOWN_FUNCTION
	47:  true, // UNKNOWN_IDENTIFIER
	50:  true, // UNKNOWN_TYPE
	60:  true, // UNKNOWN_TABLE
	62:  true, // SYNTAX_ERROR
	81:  true, // UNKNOWN_DATABASE
	115: true, // UNKNOWN_SETTING
	164: true, // READONLY
	192: true, // UNKNOWN_USER
	193: true, // WRONG_PASSWORD
	194: true, // REQUIRED_PASSWORD
	201: true, // QUOTA_EXCEEDED
	218: true, // TABLE_IS_DROPPED
	452: true, // SETTING_CONSTRAINT_VIOLATION
	497: true, // ACCESS_DENIED
	516: true, // AUTHENTICATION_FAILED
	774: true, // TABLE_IS_PERMANENTLY_READ_ONLY: a setting of the table
}

// classify says what err of an INSERT means. Anything that is not a server's exception is of the network or of time.
func classify(err error) outcome {
	if err == nil {
		return outcomeOK
	}
	if errors.Is(err, errCorruptGroup) {
		return outcomeCorrupt
	}
	if errors.Is(err, schema.ErrFeedBroken) {
		return outcomeConfig
	}
	var exception *clickhouse.Exception
	if !errors.As(err, &exception) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return outcomeRetry
	}
	switch {
	case retryCodes[exception.Code]:
		return outcomeRetry
	case configCodes[exception.Code]:
		return outcomeConfig
	}
	return outcomeData
}
