import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { decimalError, decimalExample, decimalPattern, decimalReader, parseDecimal } from '../../src/http/decimal.ts'
import { readJson } from '../../src/http/strict-json.ts'
import { Decimal } from '../../src/resources/decimal-fields.ts'

const seed = Number(process.env.SEED ?? 20_261_122)

/** A precision and scale, and the digits of a matching number without the decimal point. */
const numbers = fc
  .integer({ min: 1, max: 18 })
  .chain((precision) => fc.tuple(fc.constant(precision), fc.integer({ min: 0, max: precision })))
  .chain(([precision, scale]) => {
    const most = 10n ** BigInt(precision) - 1n
    return fc.tuple(fc.constant({ precision, scale }), fc.bigInt({ min: -most, max: most }))
  })

function textOf(digits: bigint, scale: number): string {
  const padded = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0')
  const point = padded.length - scale
  return `${digits < 0n ? '-' : ''}${padded.slice(0, point)}${scale === 0 ? '' : `.${padded.slice(point)}`}`
}

describe('a decimal', () => {
  it(`preserves every digit of a string, and matches the pattern (SEED=${seed})`, () => {
    fc.assert(
      fc.property(numbers, ([form, digits]) => {
        const text = textOf(digits, form.scale)
        assert.deepEqual(parseDecimal(text, form), { value: text })
        assert.match(text, new RegExp(decimalPattern(form), 'u'))
      }),
      { seed, numRuns: 2_000 },
    )
  })

  it(`preserves up to 15 significant digits of a JSON number, and rejects 16 or 17 (SEED=${seed})`, () => {
    fc.assert(
      fc.property(numbers, fc.boolean(), ([form, digits], hasExponent) => {
        const text = textOf(digits, form.scale)
        const number = hasExponent ? `${digits}e-${form.scale}` : text
        const significant = String(digits).replace('-', '').replace(/0+$/, '').length
        const schema = { properties: { amount: Decimal(form.precision, form.scale) } }
        if (significant > 17 || (form.scale === 0 && significant > 15 && !hasExponent)) return
        const body = readJson(`{"amount":${number}}`) as { amount: unknown }
        decimalReader(schema)?.(body)
        if (significant <= 15) assert.equal(body.amount, text)
        else assert.match(String(decimalError(String(body.amount), form)), /send it as a string$/)
      }),
      { seed, numRuns: 2_000 },
    )
  })

  it('has an example that fits its precision, scale and bounds', () => {
    const forms = [
      ...Array.from({ length: 18 }, (_, at) => ({ precision: at + 1, scale: at + 1 })),
      ...Array.from({ length: 18 }, (_, at) => ({ precision: at + 1, scale: 0 })),
      { precision: 5, scale: 2, minimum: '100.00' },
      { precision: 5, scale: 2, minimum: '-3.00', maximum: '-2.00' },
    ]
    for (const form of forms) assert.equal(decimalError(decimalExample(form), form), undefined, JSON.stringify(form))
  })
})
