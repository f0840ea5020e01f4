import { onSqlite } from '../support/engines.ts'
import { zombieSuite } from '../support/zombie.ts'

onSqlite(zombieSuite)
