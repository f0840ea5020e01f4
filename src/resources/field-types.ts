import { Type } from 'typebox'
import Format from 'typebox/format'
import { documentedLines, Line, lines } from '../http/text-rules.ts'

/** The HTML standard's pattern for e-mail addresses, used here for `format: email`. */
const email =
  /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/
Format.Set('email', (value) => email.test(value))

/** A name: one line of 1 to 200 characters. */
export const Name = Line(1, 200)

/** A title: one line of 1 to 300 characters. */
export const Title = Line(1, 300)

/** Multi-line text, by default at most 20,000 characters. */
export const Text = (maxLength = 20_000) => Type.String({ maxLength, pattern: lines, ...documentedLines })

/** An e-mail address that matches the HTML standard's pattern. */
export const Email = Type.String({ format: 'email', maxLength: 254, examples: ['ada@example.com'] })

/** An absolute URL, compared exactly. */
export const Url = Type.String({ format: 'uri', maxLength: 2_048 })

/** An amount of money: 0 to 999,999,999.99 with at most two decimal places. */
export const Price = Type.Refine(
  Type.Number({ minimum: 0, maximum: 999_999_999.99, description: 'At most two decimal places' }),
  // `multipleOf: 0.01` would reject valid prices, because 0.01 has no exact binary representation.
  (price) => Number(price.toFixed(2)) === price,
  () => 'must have at most two decimal places',
)

/** A calendar date such as `2026-03-01`. */
export const Day = Type.String({ format: 'date' })

/** An instant (RFC 3339); stored and returned in UTC with milliseconds. */
export const Instant = Type.String({ format: 'date-time' })
