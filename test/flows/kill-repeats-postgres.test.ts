import { onPostgres } from '../support/engines.ts'
import { killRepeatsSuite } from '../support/kill-repeats.ts'

onPostgres(killRepeatsSuite)
