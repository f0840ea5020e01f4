import type { OwnLimits } from '../http/policies/authenticate.ts'

const ratePattern = /^([1-9][0-9]{0,6})\/([1-9][0-9]{0,4})$/
const maxWindowSeconds = 86_400
const maxQuota = 1_000_000_000

/**
 * Returns the validation rules for limits. Each rule states whether the value breaks it, the field, and the error
 * message.
 */
export function ownLimitRules({ rate, quota }: OwnLimits): [isBroken: boolean, field: string, message: string][] {
  const seconds = Number(ratePattern.exec(rate ?? '')?.[2])
  return [
    [
      rate !== null && !(seconds <= maxWindowSeconds),
      'rate',
      `must be calls/seconds, such as 600/60, with at most ${maxWindowSeconds} seconds`,
    ],
    [
      quota !== null && !(Number.isInteger(quota) && quota >= 1 && quota <= maxQuota),
      'quota',
      `must be a whole number from 1 to ${maxQuota}`,
    ],
  ]
}
