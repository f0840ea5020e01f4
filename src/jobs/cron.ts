import { CronExpressionParser } from 'cron-parser'

/**
 * Returns the first time of a schedule after `afterMs`, in epoch ms. A time skipped when daylight saving time begins
 * moves to after the change. A time that occurs twice when daylight saving time ends counts once, unless the schedule
 * runs every hour.
 */
export const nextTime = ({ cron, zone }: { cron: string; zone: string }, afterMs: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(afterMs), tz: zone })
    .next()
    .getTime()

/** Returns the error in a cron expression; undefined if it has five valid fields that match at least one time. */
export function cronError(cron: string): string | undefined {
  if (cron.trim().split(/\s+/).length !== 5) {
    return `'${cron}' must have five fields: minute, hour, day of the month, month and day of the week`
  }
  try {
    nextTime({ cron, zone: 'UTC' }, 0)
    return undefined
  } catch (error) {
    return `'${cron}' is not a cron expression: ${error instanceof Error ? error.message : error}`
  }
}
