/**
 * Expected outcomes under RFC 9110 §13 for a resource at revision 3, last changed in the second `changed`: the status of
 * GET and HEAD requests, and whether PUT, PATCH and DELETE succeed. Tags are defined in §8.8.3, dates in §5.6.7.
 */
export interface Condition {
  note: string
  headers: Record<string, string>
  read: 200 | 304 | 412
  write: 'done' | 412
}

export const changedAt = '2026-03-01T12:00:00.500Z'

const changed = 'Sun, 01 Mar 2026 12:00:00 GMT'
const earlier = 'Sun, 01 Mar 2026 11:59:59 GMT'
const later = 'Sun, 01 Mar 2026 12:00:01 GMT'
const future = 'Sun, 01 Mar 2037 12:00:00 GMT'

type Row = [value: string, read: Condition['read'], write: Condition['write'], note: string]

const rows = (header: string, table: Row[]): Condition[] =>
  table.map(([value, read, write, note]) => ({
    note: `${header} ${note}: ${value}`,
    headers: { [header]: value },
    read,
    write,
  }))

/** §13.1.1: true for `*` and for a tag that matches under strong comparison. */
const ifMatch = rows('if-match', [
  ['"3"', 200, 'done', 'with the current tag'],
  ['"2"', 412, 412, 'with an outdated tag'],
  ['"4"', 412, 412, 'with the tag of a future revision'],
  ['W/"3"', 412, 412, 'with the current tag as a weak tag'],
  ['*', 200, 'done', 'with an asterisk'],
  [' * ', 200, 'done', 'with an asterisk and surrounding white space'],
  ['"1", "3"', 200, 'done', 'with a list containing the current tag'],
  ['"3","1"', 200, 'done', 'with a list without spaces'],
  ['"1"\t,\t"3"', 200, 'done', 'with a list separated by tabs'],
  ['"1", "2"', 412, 412, 'with a list without the current tag'],
  ['W/"3", "3"', 200, 'done', 'with the current tag as both weak and strong'],
  ['W/"2", W/"3"', 412, 412, 'with only weak tags'],
  [', "3",, ', 200, 'done', 'with empty elements (§5.6.1)'],
  ['', 412, 412, 'with an empty value'],
  ['""', 412, 412, 'with the empty tag'],
  ['"*"', 412, 412, 'with a quoted asterisk'],
  ['"33"', 412, 412, 'with a longer tag that starts with the current tag'],
  ['"03"', 412, 412, 'with a tag with a leading zero'],
  ['"3.0"', 412, 412, 'with a tag with a decimal point'],
  ['"1,3"', 412, 412, 'with a tag containing a comma'],
  ['3', 412, 412, 'without quotes'],
  ['"3', 412, 412, 'with an unclosed quote'],
  ['"3 "', 412, 412, 'with a space in the tag'],
  ['w/"3"', 412, 412, 'with a lower-case w'],
  ["'3'", 412, 412, 'with single quotes'],
  ['"2" "3"', 412, 412, 'with a list without a comma'],
  ['"3", oops', 412, 412, 'with a partly invalid list'],
  ['*, "3"', 412, 412, 'with an asterisk in a list'],
  ['"3";q=1', 412, 412, 'with a parameter'],
])

/** §13.1.2: false for `*` and for a tag that matches under weak comparison. If false, reads get 304, writes 412. */
const ifNoneMatch = rows('if-none-match', [
  ['"3"', 304, 412, 'with the current tag'],
  ['W/"3"', 304, 412, 'with the current tag as a weak tag'],
  ['*', 304, 412, 'with an asterisk'],
  ['\t* ', 304, 412, 'with an asterisk and surrounding white space'],
  ['"2"', 200, 'done', 'with an outdated tag'],
  ['W/"2"', 200, 'done', 'with an outdated weak tag'],
  ['"1", "3"', 304, 412, 'with a list containing the current tag'],
  ['"1", W/"3"', 304, 412, 'with a list containing the current tag as a weak tag'],
  ['"1","2"', 200, 'done', 'with a list without the current tag'],
  [',, "3"', 304, 412, 'with empty elements (§5.6.1)'],
  ['', 200, 'done', 'with an empty value'],
  ['""', 200, 'done', 'with the empty tag'],
  ['"*"', 200, 'done', 'with a quoted asterisk'],
  ['"33"', 200, 'done', 'with a longer tag that starts with the current tag'],
  ['"1,3"', 200, 'done', 'with a tag containing a comma'],
  // A malformed condition must neither produce a 304 for a read nor allow a write.
  ['3', 200, 412, 'without quotes'],
  ['"3" "4"', 200, 412, 'with a list without a comma'],
  ['"3", oops', 200, 412, 'with a partly invalid list'],
  ['"2", *', 200, 412, 'with an asterisk in a list'],
  ['w/"3"', 200, 412, 'with a lower-case w'],
])

/**
 * §13.1.3: applies only to GET and HEAD. 304 if the resource did not change after the given second; an invalid date is
 * ignored.
 */
const ifModifiedSince = rows('if-modified-since', [
  [changed, 304, 'done', 'in the second of the change'],
  [earlier, 200, 'done', 'a second before the change'],
  [later, 304, 'done', 'a second after the change'],
  [future, 304, 'done', 'in the future'],
  ['Sunday, 01-Mar-26 12:00:00 GMT', 304, 'done', 'in RFC 850 format'],
  ['Sunday, 01-Mar-26 11:59:59 GMT', 200, 'done', 'a second before the change in RFC 850 format'],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 200, 'done', 'in the last century in RFC 850 format'],
  ['Sun Mar  1 12:00:00 2026', 304, 'done', 'in asctime format'],
  ['Sun Mar  1 11:59:59 2026', 200, 'done', 'a second before the change in asctime format'],
  ['Sat Feb 28 23:59:60 2026', 200, 'done', 'in a leap second in asctime format'],
  ['yesterday', 200, 'done', 'with a word instead of a date'],
  ['', 200, 'done', 'with an empty value'],
  ['2037-03-01T12:00:00Z', 200, 'done', 'in ISO 8601 format'],
  ['2114380800', 200, 'done', 'as a number'],
  ['Sun, 1 Mar 2037 12:00:00 GMT', 200, 'done', 'with a one-digit day'],
  ['Sun, 01 Mar 2037 12:00:00 gmt', 200, 'done', 'in lower case'],
  ['Sun, 01 Mar 2037 12:00:00 +0000', 200, 'done', 'with an offset'],
  ['Sun, 01 Mar 2037 12:00 GMT', 200, 'done', 'without seconds'],
  ['Sun, 01 Mar 2037 24:00:00 GMT', 200, 'done', 'at an invalid hour'],
  ['Fri, 30 Feb 2035 12:00:00 GMT', 200, 'done', 'on an invalid day'],
  ['Fri, 00 Mar 2035 12:00:00 GMT', 200, 'done', 'on day zero'],
  ['Xyz, 01 Mar 2037 12:00:00 GMT', 200, 'done', 'on an invalid weekday'],
  [`${future}, ${future}`, 200, 'done', 'with two dates'],
])

/** §13.1.4: false if the resource changed after the given second; an invalid HTTP date is ignored. */
const ifUnmodifiedSince = rows('if-unmodified-since', [
  [changed, 200, 'done', 'in the second of the change'],
  [earlier, 412, 412, 'a second before the change'],
  [later, 200, 'done', 'a second after the change'],
  [future, 200, 'done', 'in the future'],
  ['Sunday, 01-Mar-26 12:00:00 GMT', 200, 'done', 'in RFC 850 format'],
  ['Sunday, 01-Mar-26 11:59:59 GMT', 412, 412, 'a second before the change in RFC 850 format'],
  ['Sun Mar  1 12:00:00 2026', 200, 'done', 'in asctime format'],
  ['Sun Mar  1 11:59:59 2026', 412, 412, 'a second before the change in asctime format'],
  ['yesterday', 200, 'done', 'with a word instead of a date'],
  ['', 200, 'done', 'with an empty value'],
  ['2009-03-01T12:00:00Z', 200, 'done', 'in ISO 8601 format'],
  ['0', 200, 'done', 'as a number'],
  ['Fri, 30 Feb 2001 12:00:00 GMT', 200, 'done', 'on an invalid day'],
])

const [M, N, S, U] = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'] as const

const combined = (
  note: string,
  headers: Record<string, string>,
  read: Condition['read'],
  write: Condition['write'],
): Condition => ({ note: `a combination: ${note}`, headers, read, write })

/** §13.2.2: first If-Match or else If-Unmodified-Since; then If-None-Match or else If-Modified-Since. */
const precedence = [
  combined('If-Match true, If-Unmodified-Since false and ignored', { [M]: '"3"', [U]: earlier }, 200, 'done'),
  combined('If-Match false, If-Unmodified-Since true and ignored', { [M]: '"2"', [U]: later }, 412, 412),
  combined('If-Match malformed, If-Unmodified-Since true and ignored', { [M]: '3', [U]: later }, 412, 412),
  combined('If-Match true, If-None-Match false', { [M]: '"3"', [N]: '"3"' }, 304, 412),
  combined('If-Match true, If-None-Match true', { [M]: '"3"', [N]: '"2"' }, 200, 'done'),
  combined('If-Match false, If-None-Match false', { [M]: '"2"', [N]: '"3"' }, 412, 412),
  combined('If-Match false, If-None-Match true', { [M]: '"2"', [N]: '"2"' }, 412, 412),
  combined('If-Match and If-None-Match with an asterisk', { [M]: '*', [N]: '*' }, 304, 412),
  combined('If-Match true, If-Modified-Since false', { [M]: '"3"', [S]: changed }, 304, 'done'),
  combined('If-Match true, If-Modified-Since true', { [M]: '"3"', [S]: earlier }, 200, 'done'),
  combined('If-Match false, If-Modified-Since false', { [M]: '"2"', [S]: changed }, 412, 412),
  combined('If-Unmodified-Since true, If-None-Match false', { [U]: changed, [N]: '"3"' }, 304, 412),
  combined('If-Unmodified-Since true, If-None-Match true', { [U]: changed, [N]: '"2"' }, 200, 'done'),
  combined('If-Unmodified-Since false, If-None-Match false', { [U]: earlier, [N]: '"3"' }, 412, 412),
  combined('If-Unmodified-Since false, If-None-Match true', { [U]: earlier, [N]: '"2"' }, 412, 412),
  combined('If-None-Match false, If-Modified-Since true and ignored', { [N]: '"3"', [S]: earlier }, 304, 412),
  combined('If-None-Match true, If-Modified-Since false and ignored', { [N]: '"2"', [S]: changed }, 200, 'done'),
  combined('If-None-Match empty, If-Modified-Since false and ignored', { [N]: '', [S]: changed }, 200, 'done'),
  combined('If-None-Match malformed, If-Modified-Since ignored', { [N]: '3', [S]: changed }, 200, 412),
  combined('If-Unmodified-Since true, If-Modified-Since false', { [U]: changed, [S]: changed }, 304, 'done'),
  combined('If-Unmodified-Since false, If-Modified-Since true', { [U]: earlier, [S]: earlier }, 412, 412),
  combined('If-Unmodified-Since invalid, If-Modified-Since false', { [U]: 'x', [S]: changed }, 304, 'done'),
  combined('all four conditions, all true', { [M]: '"3"', [U]: changed, [N]: '"2"', [S]: earlier }, 200, 'done'),
  combined(
    'all four conditions with If-None-Match false',
    { [M]: '"3"', [U]: earlier, [N]: '"3"', [S]: earlier },
    304,
    412,
  ),
  combined('all four conditions with If-Match false', { [M]: '"2"', [U]: later, [N]: '"2"', [S]: earlier }, 412, 412),
]

export const conditions: readonly Condition[] = [
  { note: 'no condition', headers: {}, read: 200, write: 'done' },
  ...ifMatch,
  ...ifNoneMatch,
  ...ifModifiedSince,
  ...ifUnmodifiedSince,
  ...precedence,
]

/**
 * Expected outcomes for a representation with a weak tag and no date, such as a list. `{tag}` stands for the opaque
 * component of the tag, including its quotes.
 */
export const weakConditions: readonly [note: string, headers: Record<string, string>, status: 200 | 304 | 412][] = [
  ['no condition', {}, 200],
  ['If-None-Match with its tag', { [N]: 'W/{tag}' }, 304],
  ['If-None-Match with its tag as if it were strong', { [N]: '{tag}' }, 304],
  ['If-None-Match with a list containing its tag', { [N]: '"x", W/{tag}' }, 304],
  ['If-None-Match with a different tag', { [N]: 'W/"x"' }, 200],
  ['If-None-Match with an asterisk', { [N]: '*' }, 304],
  ['a malformed If-None-Match', { [N]: 'W/{tag} oops' }, 200],
  ['If-Match with its tag, which is weak', { [M]: 'W/{tag}' }, 412],
  ['If-Match with its tag as if it were strong', { [M]: '{tag}' }, 412],
  ['If-Match with a different tag', { [M]: '"x"' }, 412],
  ['If-Match with an asterisk', { [M]: '*' }, 200],
  ['a malformed If-Match', { [M]: 'x' }, 412],
  ['If-Match with an asterisk and If-None-Match with its tag', { [M]: '*', [N]: 'W/{tag}' }, 304],
  ['If-Match with a different tag and If-None-Match with its tag', { [M]: '"x"', [N]: 'W/{tag}' }, 412],
  ['If-Modified-Since in the future, ignored because there is no Last-Modified', { [S]: future }, 200],
  ['If-Unmodified-Since in the past, ignored because there is no Last-Modified', { [U]: earlier }, 200],
  ['If-None-Match with a different tag and If-Modified-Since', { [N]: '"x"', [S]: future }, 200],
]

/** Expected outcomes for a POST, evaluated against the collection, which has a weak tag and no date. */
export const additionConditions: readonly [note: string, headers: Record<string, string>, status: 201 | 412][] = [
  ['If-Match with an asterisk', { [M]: '*' }, 201],
  ['If-Match with a strong tag, which no list has', { [M]: '"3"' }, 412],
  ['If-Match with a weak tag', { [M]: 'W/"x"' }, 412],
  ['a malformed If-Match', { [M]: '3' }, 412],
  ['If-None-Match with an asterisk, because the collection exists', { [N]: '*' }, 412],
  ['If-None-Match with a tag', { [N]: '"3"' }, 201],
  ['a malformed If-None-Match', { [N]: '3' }, 412],
  ['If-Match and If-None-Match, both with an asterisk', { [M]: '*', [N]: '*' }, 412],
  ['If-Unmodified-Since in the past, ignored because there is no Last-Modified', { [U]: earlier }, 201],
  ['If-Modified-Since, which applies only to reads', { [S]: future }, 201],
]

const R = 'range'
const I = 'if-range'

/**
 * Expected outcomes, under §13.2.2 including step 5 and §13.1.5, for a download of 15 bytes with a strong tag `{tag}`
 * and no date.
 */
export const downloadConditions: readonly [note: string, headers: Record<string, string>, get: number, head: number][] =
  [
    ['no condition', {}, 200, 200],
    ['If-Match with its tag', { [M]: '{tag}' }, 200, 200],
    ['If-Match with an asterisk', { [M]: '*' }, 200, 200],
    ['If-Match with a different tag', { [M]: '"x"' }, 412, 412],
    ['If-Match with its tag as a weak tag', { [M]: 'W/{tag}' }, 412, 412],
    ['a malformed If-Match', { [M]: '{tag} oops' }, 412, 412],
    ['If-None-Match with its tag', { [N]: '{tag}' }, 304, 304],
    ['If-None-Match with its tag as a weak tag', { [N]: 'W/{tag}' }, 304, 304],
    ['If-None-Match with an asterisk', { [N]: '*' }, 304, 304],
    ['If-None-Match with a different tag', { [N]: '"x"' }, 200, 200],
    ['a malformed If-None-Match', { [N]: '{tag}, x' }, 200, 200],
    ['If-Modified-Since in the future, ignored because there is no Last-Modified', { [S]: future }, 200, 200],
    ['If-Unmodified-Since in the past, ignored because there is no Last-Modified', { [U]: earlier }, 200, 200],
    ['a range', { [R]: 'bytes=0-1' }, 206, 200],
    ['an unsatisfiable range', { [R]: 'bytes=99-' }, 416, 200],
    ['a range, If-Match true', { [R]: 'bytes=0-1', [M]: '{tag}' }, 206, 200],
    ['a range, If-Match false', { [R]: 'bytes=0-1', [M]: '"x"' }, 412, 412],
    ['an unsatisfiable range, If-Match false', { [R]: 'bytes=99-', [M]: '"x"' }, 412, 412],
    ['a range, If-None-Match false', { [R]: 'bytes=0-1', [N]: '{tag}' }, 304, 304],
    ['an unsatisfiable range, If-None-Match false', { [R]: 'bytes=99-', [N]: '{tag}' }, 304, 304],
    ['a range, If-None-Match true', { [R]: 'bytes=0-1', [N]: '"x"' }, 206, 200],
    ['a range, If-Range with its tag', { [R]: 'bytes=0-1', [I]: '{tag}' }, 206, 200],
    ['a range, If-Range with its tag as a weak tag', { [R]: 'bytes=0-1', [I]: 'W/{tag}' }, 200, 200],
    ['a range, If-Range with a different tag', { [R]: 'bytes=0-1', [I]: '"x"' }, 200, 200],
    ['an unsatisfiable range, If-Range with a different tag', { [R]: 'bytes=99-', [I]: '"x"' }, 200, 200],
    ['a range, If-Range with a list', { [R]: 'bytes=0-1', [I]: '{tag}, "x"' }, 200, 200],
    ['a range, If-Range with an asterisk', { [R]: 'bytes=0-1', [I]: '*' }, 200, 200],
    ['a range, If-Range with a date, which the download does not have', { [R]: 'bytes=0-1', [I]: future }, 200, 200],
    ['If-Range without a range', { [I]: '"x"' }, 200, 200],
    ['a range, If-Match false, If-Range true', { [R]: 'bytes=0-1', [M]: '"x"', [I]: '{tag}' }, 412, 412],
    ['a range, If-None-Match false, If-Range true', { [R]: 'bytes=0-1', [N]: '{tag}', [I]: '{tag}' }, 304, 304],
    ['a range, If-Match true, If-Range false', { [R]: 'bytes=0-1', [M]: '{tag}', [I]: '"x"' }, 200, 200],
  ]
